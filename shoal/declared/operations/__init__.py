"""The operations of the service, declared once: a class for each subject, a method for each operation.

The routes of the API with their checks and their OpenAPI document, the table of rights, the methods of both
clients and the reference pages follow. `shoal_api` has what each operation does.
"""
