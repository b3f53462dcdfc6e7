# docker build -t onnxq . ; docker run --rm -u "$(id -u):$(id -g)" -e HOME=/tmp -v "$PWD:/work" onnxq quantize model.onnx --calib images/
FROM python:3.11-slim

COPY . /src
RUN pip install --no-cache-dir --constraint /src/constraints.txt '/src[trt]' \
    && rm -rf /src \
    && useradd --create-home onnxq
USER onnxq
WORKDIR /work
ENTRYPOINT ["onnxq"]
CMD ["--help"]
