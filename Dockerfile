# One image with all commands: trireme-frontend, trireme-filter, trireme-score, trireme-bind, trireme-insight,
# trireme-shadow, trireme.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY internal internal
COPY deploy/image image
# An installation without what is never loaded; then a file system with that, Python and their libraries, and nothing else.
# The last step compiles what is left, for nothing can be written where it runs.
RUN python -m venv /opt/trireme && /opt/trireme/bin/pip install --no-cache-dir . \
    && /opt/trireme/bin/pip uninstall --yes pip setuptools \
    && python image/prune.py /opt/trireme/lib/python3.11/site-packages \
    && python image/rootfs.py /opt/trireme /rootfs \
    && python -c "import compileall, sys; sys.exit(not compileall.compile_dir('/rootfs', quiet=1, stripdir='/rootfs', maxlevels=50))"

FROM scratch
COPY --from=build /rootfs /
# Nothing is written but sockets below /tmp: the root file system may be read-only. HOME is for users without an entry in
# /etc/passwd, of whom Python would not know one.
ENV PATH=/opt/trireme/bin HOME=/ PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 TMPDIR=/tmp LANG=C.UTF-8
# No USER, as in kube-scheduler's image: kubeadm's static pod names none, and its kubeconfig is root's alone to read.
# Every process runs as any user; the manifests in deploy/ say runAsNonRoot and 65532.
CMD ["trireme-frontend"]
