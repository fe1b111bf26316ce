"""Passes: pure functions from Graph to Graph, and the pipelines that they make."""
