# syntax=docker/dockerfile:1
#
#   docker build -t onecron .                       Debian with a shell, for jobs that are shell commands
#   docker build -t onecron:minimal --target minimal .   the program alone, to copy into images of your own
ARG RUST_VERSION=1.95
ARG DEBIAN_RELEASE=bookworm

FROM docker.io/library/rust:${RUST_VERSION}-${DEBIAN_RELEASE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs jobs.schema.json ./
COPY src ./src
# Static: the same file runs in any image. With `--target`, the flags do not reach build scripts and macros, which
# cannot be static.
ENV CARGO_TERM_COLOR=never \
    RUSTFLAGS="-C target-feature=+crt-static"
# What `onecron_build_info` says.
ARG REVISION=unknown
ENV ONECRON_REVISION=${REVISION}
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-gnu" \
 && cargo build --profile dist --locked --bin onecron --target "$target" \
 && install -D -m 0755 "target/$target/dist/onecron" /out/onecron

# No shell here: only jobs that are `http` requests can run, and those whose `command` is a list, of programs that are
# mounted or added.
FROM scratch AS minimal
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/onecron /usr/local/bin/onecron
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ONECRON_JOBS=/etc/onecron/jobs.yaml \
    ONECRON_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s CMD ["/usr/local/bin/onecron", "healthcheck"]
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/onecron"]
CMD ["run"]

FROM docker.io/library/debian:${DEBIAN_RELEASE}-slim AS runtime
# Not pinned: security updates matter more here than identical rebuilds, and Debian removes old versions.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 65532 onecron \
 && useradd --uid 65532 --gid 65532 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin onecron \
 && install -d -o root -g root -m 0755 /etc/onecron
COPY --from=build /out/onecron /usr/local/bin/onecron
ARG VERSION=0.0.0-dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="onecron" \
      org.opencontainers.image.description="Distributed cron scheduler: every replica runs the same job table, exactly one starts each tick" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV ONECRON_JOBS=/etc/onecron/jobs.yaml \
    ONECRON_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s CMD ["/usr/local/bin/onecron", "healthcheck"]
USER 65532:65532
# Jobs without a `workingDir` run here.
WORKDIR /tmp
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/onecron"]
CMD ["run"]
