"""Measurements of the whole product on one machine. Nothing here is part of the product."""
