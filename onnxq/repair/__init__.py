"""Repair of accuracy: steps that bring the outputs of an int8 model back to those of the float one."""
