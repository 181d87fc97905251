FROM python:3.11-slim
# Chromium draws the PNG and SVG exports.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk \
 && rm -rf /var/lib/apt/lists/* && useradd --create-home phasescope
WORKDIR /opt/phasescope
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY app app
COPY data data
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu \
 && pip install --no-cache-dir -e .
ENV PHASESCOPE_HOME=/state PHASESCOPE_MODELS=/opt/models
RUN phasescope pull smollm2-135m
RUN mkdir /state && chown phasescope /state
USER phasescope
VOLUME /state
# The dashboard binds to the container's loopback: run with --network=host, or see README, "Docker".
EXPOSE 8501
CMD ["phasescope", "dash"]
