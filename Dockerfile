# verism on the CPU: the core, the pages for annotators and for viewing runs, image and judge services. No PyTorch.
#
#   docker build -t verism .
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" verism demo --out demo_run
#
# Models of hubs, in an image of your own (a GPU needs the build of PyTorch that fits its driver):
#   FROM verism
#   USER root
#   RUN pip install --index-url https://download.pytorch.org/whl/cpu torch && pip install "verism[models,generate]"
#   USER verism
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY requirements.lock tools/build.lock ./
# Locked versions with their hashes, in an environment that is copied as a whole; the build's own tools stay behind.
RUN pip install --no-cache-dir --require-hashes -r build.lock \
 && python -m venv /usr/local/verism \
 && /usr/local/verism/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
 && /usr/local/verism/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl \
 && /usr/local/verism/bin/pip check

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="verism" \
      org.opencontainers.image.description="Evaluate text-to-image models" \
      org.opencontainers.image.source="https://github.com/verism-project/verism" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 1000 --create-home verism && mkdir /data && chown verism /data
COPY --from=build /usr/local/verism /usr/local/verism
ENV PATH="/usr/local/verism/bin:$PATH" PYTHONUTF8=1 PYTHONDONTWRITEBYTECODE=1
USER verism
WORKDIR /data
ENTRYPOINT ["verism"]
CMD ["--help"]
