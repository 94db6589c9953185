# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""Sends pushes to the tests' scripted providers with clients that share nothing with this project: httpx and h2, google-auth, pywebpush.

The argument is a JSON object with the providers' origins and the credentials that they accept. A provider that answers a right request
with an error, or a wrong one without, ends the program with status 1.
"""

import asyncio
import json
import ssl
import sys
import time

import httpx
import pywebpush
import requests
from google.auth import crypt, jwt
from google.auth.transport.requests import AuthorizedSession, Request
from google.oauth2 import service_account


def trusting(session, ca):
    session.verify = ca
    # Certificates and proxies of the environment have nothing to do with the tests' servers.
    session.trust_env = False
    return session


def expect(what, found, expected):
    if found != expected:
        print(f"{what}: {found!r} instead of {expected!r}", file=sys.stderr)
        sys.exit(1)


async def apns(given, ca):
    signer = crypt.ES256Signer.from_string(given["key"], key_id=given["keyID"])
    token = jwt.encode(signer, {"iss": given["team"], "iat": int(time.time())}).decode()
    headers = {
        "authorization": f"bearer {token}",
        "apns-topic": given["topic"],
        "apns-push-type": "background",
        "apns-priority": "5",
        "apns-expiration": "0",
    }
    body = b'{"aps":{"content-available":1}}'
    url = f"{given['origin']}/3/device/"
    context = ssl.create_default_context(cafile=ca)
    async with httpx.AsyncClient(http1=False, http2=True, verify=context) as client:

        async def reason(**changes):
            reply = await client.request(
                changes.get("method", "POST"),
                url + changes.get("device", given["devices"][0]),
                headers={k: v for k, v in {**headers, **changes.get("headers", {})}.items() if v is not None},
                content=changes.get("content", body),
            )
            return reply.status_code, reply.json()["reason"]

        replies = await asyncio.gather(*[client.post(url + device, headers=headers, content=body) for device in given["devices"]])
        for reply in replies:
            expect("APNs", (reply.status_code, reply.http_version, "apns-id" in reply.headers), (200, "HTTP/2", True))
        for name, changes, expected in [
            ("topic", {"headers": {"apns-topic": "other.app"}}, (400, "TopicDisallowed")),
            ("no topic", {"headers": {"apns-topic": None}}, (400, "MissingTopic")),
            ("no token", {"headers": {"authorization": None}}, (403, "MissingProviderToken")),
            ("token", {"headers": {"authorization": "bearer x.y.z"}}, (403, "InvalidProviderToken")),
            ("device", {"device": "zz"}, (400, "BadDeviceToken")),
            ("priority", {"headers": {"apns-priority": "10"}}, (400, "BadPriority")),
            ("body", {"content": b""}, (400, "PayloadEmpty")),
            ("large body", {"content": b"{" + b" " * 4096}, (413, "PayloadTooLarge")),
            ("method", {"method": "PUT"}, (405, "MethodNotAllowed")),
        ]:
            expect(f"APNs, wrong {name}", await reason(**changes), expected)


def fcm(given, ca):
    credentials = service_account.Credentials.from_service_account_info(
        given["account"], scopes=["https://www.googleapis.com/auth/firebase.messaging"]
    )
    own = trusting(requests.Session(), ca)
    session = trusting(AuthorizedSession(credentials, auth_request=Request(own)), ca)
    url = f"{given['origin']}/v1/projects/{given['account']['project_id']}/messages:send"
    message = {"token": "t", "data": {"a": "b"}, "android": {"priority": "high", "ttl": "60s", "collapse_key": "c"}}
    reply = session.post(url, json={"message": message})
    expect("FCM", (reply.status_code, list(reply.json())), (200, ["name"]))
    reply = session.post(url, json={"message": {**message, "data": {"a": 1}}})
    expect("FCM, wrong data", reply.json()["error"]["details"][0]["errorCode"], "INVALID_ARGUMENT")
    reply = own.post(url, json={"message": message}, headers={"Authorization": "Bearer x"})
    expect("FCM, wrong token", reply.status_code, 401)
    reply = own.post(given["account"]["token_uri"], data={"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "x.y.z"})
    expect("FCM, wrong assertion", (reply.status_code, reply.json()["error"]), (400, "invalid_grant"))


def wns(given, ca):
    session = trusting(requests.Session(), ca)
    form = {"grant_type": "client_credentials", "client_id": given["client"], "client_secret": given["secret"]}
    for path, scope in [("/accesstoken.srf", "notify.windows.com"), (f"/{given['tenant']}/oauth2/v2.0/token", "https://wns.windows.com/.default")]:
        reply = session.post(given["origin"] + path, data={**form, "scope": scope})
        expect("WNS token", reply.status_code, 200)
        token = reply.json()["access_token"]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream", "X-WNS-Type": "wns/raw"}
        reply = session.post(given["channel"], data=b"{}", headers=headers)
        expect("WNS", (reply.status_code, reply.headers["X-WNS-Status"]), (200, "received"))
        # requests sends an iterator in chunks.
        expect("WNS, chunked", session.post(given["channel"], data=iter([b"{}"]), headers=headers).status_code, 411)
        expect("WNS, wrong token", session.post(given["channel"], data=b"{}", headers={**headers, "Authorization": "Bearer x"}).status_code, 401)
        expect("WNS, other kind's scope", session.post(given["origin"] + path, data={**form, "scope": "x"}).status_code, 400)


def web_push(given, ca):
    session = trusting(requests.Session(), ca)

    def push(**changes):
        try:
            return pywebpush.webpush(
                subscription_info={**given["subscription"], **changes.get("subscription", {})},
                data=given["content"],
                vapid_private_key=changes.get("key", given["key"]),
                vapid_claims={"sub": given["contact"]},
                content_encoding="aes128gcm",
                ttl=60,
                requests_session=session,
            ).status_code
        except pywebpush.WebPushException as error:
            return error.response.status_code

    expect("Web Push", push(), 201)
    expect("Web Push, wrong VAPID key", push(key=given["otherKey"]), 401)
    keys = {**given["subscription"]["keys"], "auth": "AAAAAAAAAAAAAAAAAAAAAA"}
    expect("Web Push, wrong secret", push(subscription={"keys": keys}), 400)


with open(sys.argv[1], encoding="utf-8") as file:
    everything = json.load(file)
asyncio.run(apns(everything["apns"], everything["apns"]["ca"]))
fcm(everything["fcm"], everything["fcm"]["ca"])
wns(everything["wns"], everything["wns"]["ca"])
web_push(everything["webPush"], everything["webPush"]["ca"])
