# One image with all commands: trireme-frontend, trireme-filter, trireme-score, trireme-bind and trireme.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY internal internal
# A tree of its own, that the second stage takes as it is: neither pip's cache nor the sources come along.
RUN python -m venv /opt/trireme && /opt/trireme/bin/pip install --no-cache-dir . \
    && /opt/trireme/bin/pip uninstall --yes pip setuptools \
    && /opt/trireme/bin/python -m compileall -q /opt/trireme/lib

FROM python:3.11-slim
COPY --from=build /opt/trireme /opt/trireme
# Nothing is written but sockets below /tmp: the root file system may be read-only. HOME is for users without an entry in
# /etc/passwd, of whom Python would not know one.
ENV PATH=/opt/trireme/bin:$PATH HOME=/ PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 TMPDIR=/tmp
RUN groupadd --system --gid 65532 trireme && useradd --system --uid 65532 --gid trireme --no-create-home trireme
# No USER, as in kube-scheduler's image: kubeadm's static pod names none, and its kubeconfig is root's alone to read.
# Every process runs as any user; the manifests in deploy/ say runAsNonRoot and 65532.
CMD ["trireme-frontend"]
