"""The MCP server: tools, resources and prompts for agents. Needs the extra `shoal[mcp]`.

`server.make_server` puts the parts together over a `backend.Backend`; `shoal mcp` runs it over stdio, or
over HTTP with `http_service`.
"""
