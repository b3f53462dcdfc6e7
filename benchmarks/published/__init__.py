"""Published times of networks in float16 and in int8, and these networks."""
