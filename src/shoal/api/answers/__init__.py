"""The shapes of answers, for the OpenAPI document; `present` makes them."""
