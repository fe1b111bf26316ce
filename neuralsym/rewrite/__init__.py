"""Rewriting: patterns, rules, and the driver that applies rules until none fires."""

from neuralsym.rewrite.driver import rewrite
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Rule, reject, rule

__all__ = ["P", "Rule", "reject", "rewrite", "rule"]
