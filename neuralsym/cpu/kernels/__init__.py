"""Kernel classes: for each operator what it supports and how its descriptor is filled."""
