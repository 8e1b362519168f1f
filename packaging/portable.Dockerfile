# A program for glibc 2.31 and later (Debian 11, Ubuntu 20.04, RHEL 9). Debian 11 has that glibc; its compiler and most of the
# libraries are too old for kvick, so that they are built here, which takes an hour or two.
#
#   docker build -f packaging/portable.Dockerfile --output dist .
#
# This file has not been run yet. Its last step fails if the program needs a newer glibc than 2.31.
FROM debian:bullseye AS build
WORKDIR /sources
# Debian 11 gets no more updates; its packages are in the archive.
RUN printf 'deb [check-valid-until=no] http://archive.debian.org/debian bullseye main\n' > /etc/apt/sources.list \
 && apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl xz-utils bzip2 make g++ git binutils file python3 python3-pip \
      pkg-config perl libcurl4-openssl-dev libedit-dev libssl-dev libnuma-dev libpcre2-dev libutf8proc-dev zlib1g-dev \
      libgmp-dev libmpfr-dev libmpc-dev flex dpkg-dev \
 && pip3 install cmake==3.25.2 ninja==1.11.1
# GCC 12, against this glibc: its libgcc and libstdc++ then ask for nothing newer.
ARG GCC=12.3.0
RUN curl -fsSL https://ftp.gnu.org/gnu/gcc/gcc-$GCC/gcc-$GCC.tar.xz | tar xJ -C /sources \
 && mkdir /sources/gcc && cd /sources/gcc \
 && ../gcc-$GCC/configure --prefix=/opt/gcc --enable-languages=c,c++ --disable-multilib --disable-bootstrap \
 && make -j"$(nproc)" && make install-strip && rm -rf /sources/gcc* \
 && echo /opt/gcc/lib64 > /etc/ld.so.conf.d/000-gcc.conf && ldconfig
ENV CC=/opt/gcc/bin/gcc CXX=/opt/gcc/bin/g++
# The versions of Debian 12.
RUN build() { git clone --depth 1 -b "$2" "https://github.com/$1" /sources/one && shift 2 \
      && cmake -G Ninja -S /sources/one -B /sources/one/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
           -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX=/usr/local "$@" \
      && cmake --build /sources/one/build --target install && rm -rf /sources/one; } \
 && build fmtlib/fmt 9.1.0 -DFMT_TEST=OFF \
 && build CLIUtils/CLI11 v2.1.2 -DCLI11_BUILD_TESTS=OFF -DCLI11_BUILD_EXAMPLES=OFF \
 && build nlohmann/json v3.11.2 -DJSON_BuildTests=OFF \
 && build simdjson/simdjson v3.0.1 -DSIMDJSON_DEVELOPER_MODE=OFF \
 && build redis/hiredis v1.1.0 -DENABLE_SSL=ON -DDISABLE_TESTS=ON \
 && build nih-at/libzip v1.7.3 -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
RUN git clone --depth 1 -b liburing-2.3 https://github.com/axboe/liburing /sources/uring \
 && cd /sources/uring && ./configure --prefix=/usr/local && make -C src install && rm -rf /sources/uring \
 && git clone --depth 1 -b v0.8.1 https://github.com/Cyan4973/xxHash /sources/xxhash \
 && make -C /sources/xxhash CFLAGS="-O3 -fPIC" install && rm -rf /sources/xxhash \
 && curl -fsSL https://archives.boost.io/release/1.81.0/source/boost_1_81_0.tar.bz2 | tar xj -C /sources \
 && mv /sources/boost_1_81_0/boost /usr/local/include/ && rm -rf /sources/boost*
# A newer libcurl than Debian 11 has (7.74), without what kvick does not ask of it.
RUN curl -fsSL https://curl.se/download/curl-7.88.1.tar.xz | tar xJ -C /sources && cd /sources/curl-7.88.1 \
 && ./configure --prefix=/usr/local --with-openssl --disable-ldap --without-libpsl --without-librtmp --without-brotli \
      --without-zstd --without-libidn2 \
 && make -j"$(nproc)" install && rm -rf /sources/curl*
WORKDIR /src
COPY . .
RUN ldconfig \
 && cmake --preset portable -DKVICK_UNITY=ON && cmake --build build/portable \
 && cmake --install build/portable --prefix /opt/kvick --component program --strip \
 && tools/glibc_needs --limit 2.31 /opt/kvick \
 && cd build/portable && cpack -G TGZ && mkdir /dist && cp ./*.tar.gz /dist/

FROM scratch
COPY --from=build /dist /
