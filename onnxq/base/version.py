"""The version of onnxq, which reports and manifests state."""

VERSION = "0.1.0"
