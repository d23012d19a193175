# One image for every role: the binary alone. Its own `health` sub-command is the health check.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -tags timetzdata \
	-ldflags "-s -w -X main.version=${VERSION}" -o /retune ./cmd/retune

FROM debian:bookworm-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /retune /usr/local/bin/retune
COPY LICENSE NOTICE /usr/share/doc/retune/
RUN useradd --system --uid 10001 --home-dir /var/lib/retune --create-home --shell /usr/sbin/nologin retune
USER retune
WORKDIR /var/lib/retune
VOLUME /var/lib/retune
ENTRYPOINT ["retune"]
CMD ["--help"]
