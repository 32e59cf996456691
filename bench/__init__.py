"""Measurements of the product on one machine. No module here is part of the product."""
