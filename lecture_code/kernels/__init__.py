"""Kernels for a GPU. Importing this package imports no compiler: import the module that you want."""
