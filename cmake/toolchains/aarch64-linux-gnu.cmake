# Builds for aarch64 on another machine, with Debian's cross compiler and packages:
#
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install g++-aarch64-linux-gnu qemu-user libabsl-dev:arm64 libboost-dev:arm64
#     libfmt-dev:arm64 libgmock-dev:arm64 libgtest-dev:arm64 libssl-dev:arm64
#   cmake --preset release -B build/aarch64
#     --toolchain cmake/toolchains/aarch64-linux-gnu.cmake -DCOPPICE_DEVICE_CODE=OFF
#
# Tests then run on qemu's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# The host's own libraries lie beside them: pkg-config would find those.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_IGNORE_PATH /usr/lib/x86_64-linux-gnu)
find_program(CMAKE_CROSSCOMPILING_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
