"""The MCP server: tools by which a program with a language model reads a cluster, and acts on it by plans.

It tells what the command line and the web UI tell, by the same functions. It needs the package `mcp`, which
`peloton[mcp]` brings.
"""
