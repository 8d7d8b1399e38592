"""The pages: server-rendered, readable without JavaScript, live with it.

A page is a frozen context (`contexts`) rendered by one template. The sentences on it come from the
same views as the API's; nothing here judges fit, asks the store or composes a reason.
"""
