// Small images as Pillow 13 wrote them: 11 x 9 pixels, in base64.
#pragma once

#include <string>
#include <string_view>

namespace bitrift::nn::tests {

inline constexpr std::string_view jpeg_base64 =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7"
    "Pj4+JS5ESUM8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7"
    "Ozs7Ozs7Ozv/wAARCAAJAAsDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABQb/xAAkEAABAwMBCQAAAAAAAAAAAAABAAID"
    "BQYRMxITISNBUXFywf/EABUBAQEAAAAAAAAAAAAAAAAAAAEF/8QAHREAAAYDAQAAAAAAAAAAAAAAAAEDBAUhEyIxUf/aAAwDAQAC"
    "EQMRAD8AAptqRtiHLbnZ7ZVJHakQjA3TDjrwP1M0jRPqVRw6LfChrP1dTqy8DCSzjD0f/9k=";
inline constexpr std::string_view progressive_base64 =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7"
    "Pj4+JS5ESUM8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7"
    "Ozs7Ozs7Ozv/wgARCAAJAAsDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABQT/xAAVAQEBAAAAAAAAAAAAAAAAAAAABP/a"
    "AAwDAQACEAMQAAABPStRhf/EABgQAAIDAAAAAAAAAAAAAAAAAAEDBBEx/9oACAEBAAEFAlxRQiilYM//xAAXEQADAQAAAAAAAAAA"
    "AAAAAAAAAwQS/9oACAEDAQE/AYq2YP/EABcRAQADAAAAAAAAAAAAAAAAAAIAAyH/2gAIAQIBAT8Bd6yf/8QAFhABAQEAAAAAAAAA"
    "AAAAAAAAMQAQ/9oACAEBAAY/AiN//8QAGBABAQADAAAAAAAAAAAAAAAAADEBQbH/2gAIAQEAAT8hxoRpDmm//9oADAMBAAIAAwAA"
    "ABDX/8QAFREBAQAAAAAAAAAAAAAAAAAAAEH/2gAIAQMBAT8QsP/EABcRAQADAAAAAAAAAAAAAAAAACEAAVH/2gAIAQIBAT8QWGsn"
    "/8QAHRAAAgIBBQAAAAAAAAAAAAAAAAERMSFBYXGhwf/aAAgBAQABPxBJs2SJop41w/S7kdA//9k=";
inline constexpr std::string_view cmyk_base64 =
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAoHB4jHhkoIyEjLSsoMDxkQTw3Nzx7WF1JZJGAmZaPgIyKoLTmw6Cq2q2KjMj/y9ru9f//"
    "/5vB////+v/m/f/4/8AAFAgACQALBEMRAE0RAFkRAEsRAP/EABcAAQEBAQAAAAAAAAAAAAAAAAAFAwT/xAArEAABAgIGCgMAAAAA"
    "AAAAAAAAAQIEEQMVMkFhYhIiIyQzNENxc6GisfD/2gAOBEMATQBZAEsAAD8A5YC4xq7KcmwZC9NXqzBVVVT1L9hZLrLCCrsppuzN"
    "XQoXSvmiz+SAhQFxZEJyVN43fQLrLCAUXCb2B//Z";
inline constexpr std::string_view png_base64 =
    "iVBORw0KGgoAAAANSUhEUgAAAAsAAAAJCAIAAABrBkF6AAAAY0lEQVR42oXPsQ3DIBSE4S9SdnCTksKjUDAMo1AwCkWG8TBuMLYT"
    "lDxdcTr9Or17YPmppxfCl9bhBxGJpMOc4ZXIFDLhQuRBJAqVRj2IRPnoaLzZph2RQGW7E/3T1eR6+H/tDl6XFXhlJXYnAAAAAElF"
    "TkSuQmCC";
inline constexpr std::string_view palette_base64 =
    "iVBORw0KGgoAAAANSUhEUgAAAAsAAAAJBAMAAAAWSsseAAAAD1BMVEWtxEatfmYuqE+tKlAuKkaDmeMmAAAAA3RSTlP//wDXyg1B"
    "AAAAOElEQVR42i3KsQ2AMAwAMBMqMcIJHMP/6gl8kGxMpSx49nKRRjAR4G5077nK7VFBTRXs5WiQ//QB3WANziK2qMUAAAAASUVO"
    "RK5CYII=";

/// The bytes that a text in base64 (RFC 4648) stands for.
inline std::string from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned value = 0, bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    value = (value << 6 | static_cast<unsigned>(digits.find(c))) & 0xFFFFFF;
    bits += 6;
    if (bits >= 8) bytes += static_cast<char>(value >> (bits -= 8) & 0xFF);
  }
  return bytes;
}

}  // namespace bitrift::nn::tests
