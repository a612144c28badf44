# The image holds the program, certificates of authorities, and nothing else: no shell, no packages. It runs as a user
# without rights, and writes nothing into its own file system.
#
#   docker build -t sluice .                                                        the model is mounted at /model
#   docker build -t sluice --target with-model --build-arg WITH_MODEL=models/ende-tiny . the model is in the image
#   docker build -t sluice:gpu --target gpu .                                       for NVIDIA's GPUs
#   docker run --read-only -v $PWD/job.yml:/job.yml:ro sluice run /job.yml
#
# The program for GPUs needs glibc, to open the driver, which NVIDIA's container toolkit puts into the container. All others are static.
#
# Where no base image can be had, scripts/image.sh makes the same image without this file.
ARG BUILDER=golang:1.26
ARG GPU_BASE=gcr.io/distroless/base-debian12:nonroot

FROM ${BUILDER} AS build
WORKDIR /src
ENV CGO_ENABLED=0
COPY go.mod go.sum ./
RUN ["go", "mod", "download"]
COPY . .
RUN ["go", "build", "-trimpath", "-tags=nogpu", "-ldflags=-s -w", "-o", "/out/usr/bin/sluice", "./cmd/sluice"]
RUN ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "/out/usr/bin/healthcheck", "./infra/healthcheck"]

FROM build AS build-gpu
RUN ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "/out/usr/bin/sluice", "./cmd/sluice"]

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /
COPY LICENSE THIRD_PARTY_NOTICES /usr/share/doc/sluice/
LABEL org.opencontainers.image.title="sluice" \
      org.opencontainers.image.description="Streaming batch translation with Marian models" \
      org.opencontainers.image.licenses="Apache-2.0"
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# Where jobs find their model, and what the health check asks.
ENV MODEL=/model LISTEN=:9090
EXPOSE 9090
STOPSIGNAL SIGTERM
# Only "sluice run" with observe.listen answers; give other commands --no-healthcheck.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/healthcheck"]
ENTRYPOINT ["/usr/bin/sluice"]
CMD ["--help"]

FROM base AS with-model
# Not MODEL: the variable of the image would take its place.
ARG WITH_MODEL=models/ende-tiny
COPY ${WITH_MODEL} /model

FROM ${GPU_BASE} AS gpu
COPY --from=build-gpu /out/ /
COPY LICENSE THIRD_PARTY_NOTICES /usr/share/doc/sluice/
USER 65532:65532
ENV MODEL=/model LISTEN=:9090 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/healthcheck"]
ENTRYPOINT ["/usr/bin/sluice"]
CMD ["--help"]

FROM base
