FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
# Dependencies and what was built before stay in caches that are no part of any image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,sharing=locked \
    cargo build --profile dist --locked --bin gene-registry \
    && install -D target/dist/gene-registry /out/gene-registry

FROM debian:bookworm-slim
# The certificate authorities are for TLS towards the database.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/gene-registry /usr/local/bin/gene-registry
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/gene-registry/
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
EXPOSE 8080 9464
HEALTHCHECK --interval=5s --timeout=3s --start-period=15s --retries=3 \
    CMD ["gene-registry", "healthcheck"]
ENTRYPOINT ["gene-registry"]
CMD ["serve"]
