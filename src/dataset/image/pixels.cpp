#include "dataset/image/pixels.h"

#include "core/error.h"

namespace bitrift::nn {

void check_image_size(ImageSize size, const std::string& name) {
  if (size.width <= 0 || size.height <= 0) {
    fail(ErrorCode::bad_file,
         "{}: expected a whole JPEG or PNG image, found an image without pixels: replace or remove it", name);
  }
  if (size.width > max_image_pixels / size.height) {
    fail(ErrorCode::unsupported, "{}: an image of {} x {} pixels; at most {} are supported: make it smaller",
         name, size.width, size.height, max_image_pixels);
  }
}

}  // namespace bitrift::nn
