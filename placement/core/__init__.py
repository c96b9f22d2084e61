"""What placement decides, without I/O: values in, values out."""
