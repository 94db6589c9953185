# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""A browser without JavaScript for tests: keeps cookies, follows redirects, fills in forms, and signs its user in where a page asks."""
import html.parser
import urllib.parse

import requests


class _Forms(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.forms = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "form":
            self.forms.append((values.get("action") or "", {}))
        elif tag == "input" and self.forms and "name" in values and "disabled" not in values:
            if values.get("type") != "checkbox":
                self.forms[-1][1][values["name"]] = values.get("value") or ""


class Browser:
    def __init__(self):
        self.session = requests.Session()
        self.address, self.text, self.forms = "", "", []
        # The user's name and password, when there are.
        self.user = {}

    def open(self, address, stop=None, **request):
        """Opens a page. A redirect to an address that begins with `stop` is returned and not followed."""
        method = "POST" if "data" in request else "GET"
        for _ in range(10):
            answer = self.session.request(method, address, allow_redirects=False, timeout=60, **request)
            if not answer.is_redirect:
                break
            address = urllib.parse.urljoin(address, answer.headers["Location"])
            if stop and address.startswith(stop):
                return address
            method, request = "GET", {}
        answer.raise_for_status()
        self.address, self.text = address, answer.text
        parser = _Forms()
        parser.feed(answer.text)
        self.forms = parser.forms
        # Without TLS, each visit of the issuer's pages begins signed out.
        if self.user and method == "GET" and any(target.endswith("/login") for target, _ in self.forms):
            return self.submit("/login", stop, **self.user)
        return None

    def submit(self, action, stop=None, **fields):
        """Sends the page's form whose action ends with `action`, with these values."""
        for target, values in self.forms:
            if target.endswith(action):
                target = urllib.parse.urljoin(self.address, target)
                origin = "://".join(urllib.parse.urlsplit(self.address)[:2])
                return self.open(target, stop, data=values | fields, headers={"Origin": origin})
        raise SystemExit(f"{self.address} has no form {action}: {self.text}")


def person(link, password="correct horse battery"):
    """A browser whose user has set a password by a set-up link, and is signed in."""
    browser = Browser()
    browser.open(link)
    name = next(values["username"] for target, values in browser.forms if target.endswith("/setup"))
    browser.submit("/setup", password=password, repeated=password)
    browser.user = {"name": name, "password": password}
    return browser
