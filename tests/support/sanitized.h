// Defines COPPICE_SANITIZED where a sanitizer is compiled in, which GCC and clang say differently.

#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COPPICE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COPPICE_SANITIZED
#endif
#endif
