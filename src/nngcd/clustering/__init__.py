"""Clustering as matrix algebra: k-means, semi-supervised k-means, symmetric factorisation and the theory of both."""
