"""WebSocket subscriptions of the embedded chain, as Agave presents them."""
