"""The measurements behind lecture_code/records, one function a record; run by tools/gpu.py."""
