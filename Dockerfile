# kvick in a container: the program, the libraries that it needs, and no shell. Without a model it is meant to take less than 60 MB.
#
#   docker build -t kvick:0.1.0 --build-arg COMMIT=$(git rev-parse --short=10 HEAD) .
#   docker run --rm -v kvick:/cache kvick:0.1.0 pull qwen3-0.6b
#   docker run --rm -v kvick:/cache -p 127.0.0.1:8080:8080 kvick:0.1.0
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY scripts/setup scripts/packages.txt scripts/
RUN scripts/setup
COPY . .
ARG COMMIT=""
# Open MPI and oneDNN, which only --ranks and --attn bmm need, would be most of the image. The base has OpenSSL.
RUN cmake --preset portable -DKVICK_UNITY=ON -DKVICK_COMMIT=$COMMIT \
 && cmake --build build/portable --target kvick kvick_share \
 && cmake --install build/portable --prefix /opt/usr --component program --strip \
 && rm -rf /opt/usr/lib/kvick/libssl.so.3 /opt/usr/lib/kvick/libcrypto.so.3 /opt/usr/lib/systemd \
      /opt/usr/share/bash-completion /opt/usr/share/zsh /opt/usr/share/fish /opt/usr/share/man \
 && mkdir /opt/cache

# Debian 12's glibc and certificates, which the program was linked for and libcurl looks for.
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /opt/usr /usr
COPY --from=build --chown=65532:65532 /opt/cache /cache
ENV XDG_CACHE_HOME=/cache
VOLUME /cache
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 CMD ["/usr/bin/kvick", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/kvick"]
CMD ["serve", "--host", "0.0.0.0", "-m", "qwen3-0.6b"]
