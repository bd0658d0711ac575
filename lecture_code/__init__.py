"""The code of the book, one module for one idea. Importing it needs numpy alone.

Each module is imported by name (`from lecture_code import hardware`); torch, triton and matplotlib
load only with the modules that use them.
"""

__version__ = "0.1.0"
