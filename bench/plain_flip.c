/* plain_flip FILE COUNT SEED DATASET...: inverts bit 20 of random float32 elements of contiguous datasets. The least that
 * a program can do which asks HDF5 for the places: no lock, no journal, no sync, nothing read back. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Knuth's MMIX; its high bits. */
static uint64_t draw(uint64_t* state, uint64_t below) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (*state >> 20) % below;
}

int main(int count, char** words) {
  if (count < 5) return 2;
  const int datasets = count - 4;
  uint64_t* const starts = malloc(sizeof(uint64_t) * (size_t)datasets);
  uint64_t* const sizes = malloc(sizeof(uint64_t) * (size_t)datasets);
  if (starts == NULL || sizes == NULL) return 1;
  const hid_t file = H5Fopen(words[1], H5F_ACC_RDONLY, H5P_DEFAULT);
  for (int i = 0; i < datasets; ++i) {
    const hid_t dataset = H5Dopen2(file, words[4 + i], H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    starts[i] = H5Dget_offset(dataset);
    sizes[i] = (uint64_t)H5Sget_simple_extent_npoints(space);
    if (starts[i] == HADDR_UNDEF) return 1;
    H5Sclose(space);
    H5Dclose(dataset);
  }
  H5Fclose(file);
  const int fd = open(words[1], O_RDWR);
  uint64_t state = strtoull(words[3], NULL, 10);
  for (uint64_t left = strtoull(words[2], NULL, 10); left > 0; --left) {
    const uint64_t i = draw(&state, (uint64_t)datasets);
    const off_t place = (off_t)(starts[i] + 4 * draw(&state, sizes[i]));
    uint32_t value = 0;
    if (pread(fd, &value, sizeof value, place) != (ssize_t)sizeof value) return 1;
    value ^= UINT32_C(1) << 20;
    if (pwrite(fd, &value, sizeof value, place) != (ssize_t)sizeof value) return 1;
  }
  return close(fd);
}
