"""Kernels for a GPU. Importing the package loads no compiler: import the module you want."""
