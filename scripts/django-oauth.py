#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Starts Django OAuth Toolkit, an OAuth provider of others (PyPI: django-oauth-toolkit), for tests with opaque access tokens.

usage: django-oauth.py DIRECTORY

Makes an SQLite database in DIRECTORY with the user anna, the public client `relay` for the code flow with PKCE, and a client that may introspect
tokens. Prints one JSON line: issuer, client, secret. Then it reads commands, one a line, and answers each with one line:

revoke TOKEN   ends a token at the issuer
page URL       anna signs in, and lets the app in that opened the page; the answer is the address that the browser goes to

Runs until standard input ends.
"""
import json
import pathlib
import socketserver
import sys
import threading
import wsgiref.simple_server

import django
from django.conf import settings

from pages import Browser

directory = pathlib.Path(sys.argv[1])
scopes = ["relay.device.read", "relay.device.register", "relay.command", "relay.push"]
client, secret, password = "device-relay-test", "2e6a5fb7c94d4c1f", "correct horse battery"

settings.configure(
    SECRET_KEY="a key of a test", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, USE_TZ=True, LOGIN_URL="/login/",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": directory / "django.sqlite", "OPTIONS": {"timeout": 60}}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth"],
            "loaders": [
                ("django.template.loaders.locmem.Loader", {
                    "registration/login.html": "<form method='post' action='/login/'>{% csrf_token %}{{ form }}"
                    "<input type='hidden' name='next' value='{{ next }}'><button>Sign in</button></form>",
                }),
                "django.template.loaders.app_directories.Loader",
            ],
        },
    }],
    OAUTH2_PROVIDER={"SCOPES": {name: name for name in scopes}, "PKCE_REQUIRED": True, "ACCESS_TOKEN_EXPIRE_SECONDS": 600},
    LOGGING_CONFIG=None,
)
django.setup()

from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import include, path
from oauth2_provider.models import AccessToken, Application

urlpatterns = [path("login/", LoginView.as_view(), name="login"), path("", include("oauth2_provider.urls", namespace="oauth2_provider"))]
call_command("migrate", verbosity=0)
User.objects.create_user("anna", password=password)
Application.objects.create(
    client_id="relay", name="relay", client_type="public", authorization_grant_type="authorization-code",
    redirect_uris="http://127.0.0.1/signed-in",
)
Application.objects.create(
    client_id=client, client_secret=secret, name=client, client_type="confidential", authorization_grant_type="client-credentials",
)


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


server = wsgiref.simple_server.make_server("127.0.0.1", 0, get_wsgi_application(), Server, Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


def answer(command, argument):
    if command == "revoke":
        AccessToken.objects.get(token=argument).revoke()
        return ""
    browser = Browser()
    browser.open(argument)
    browser.submit("/login/", username="anna", password=password)
    return browser.submit("", stop="http://127.0.0.1:", allow="Authorize")


print(json.dumps({"issuer": f"http://127.0.0.1:{server.server_port}", "client": client, "secret": secret}), flush=True)
for line in sys.stdin:
    print(answer(*line.split()), flush=True)
