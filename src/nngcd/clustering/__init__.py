"""Clustering as matrix algebra: k-means, semi-supervised k-means, neighbours and communities."""
