"""The body: the float type of what is not quantized. It knows graph/ and run/."""
