/* plain_flip FILE DATASET ELEMENT: inverts bit 20 of a contiguous float32 element. The least that a program can do which
 * asks HDF5 for the place: no lock, no journal, no sync, nothing read back. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char** words) {
  if (count != 4) return 2;
  const hid_t file = H5Fopen(words[1], H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, words[2], H5P_DEFAULT);
  const haddr_t start = H5Dget_offset(dataset);
  if (start == HADDR_UNDEF) return 1;
  H5Dclose(dataset);
  H5Fclose(file);
  const off_t place = (off_t)(start + 4 * strtoull(words[3], NULL, 10));
  const int fd = open(words[1], O_RDWR);
  uint32_t value = 0;
  if (pread(fd, &value, sizeof value, place) != (ssize_t)sizeof value) return 1;
  value ^= UINT32_C(1) << 20;
  if (pwrite(fd, &value, sizeof value, place) != (ssize_t)sizeof value) return 1;
  return close(fd);
}
