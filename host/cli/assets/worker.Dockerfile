# The default worker image of `mst runner setup docker`: a base, and this mst in it, so that no
# machine has to be given its executable. Install your client here, or bring your own `--base`.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
COPY mst /usr/local/bin/mst
