"""Rewriting: patterns, rules, and the driver that applies rules until none fires."""
