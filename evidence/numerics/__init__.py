"""Compiled ground: linear algebra, special functions, normals, threads. It knows no statistics."""
