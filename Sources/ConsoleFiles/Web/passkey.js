// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// Asks the browser for a passkey, and sends the form.
"use strict";
const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
for (const part of document.querySelectorAll("[data-passkey]")) {
    if (!window.PublicKeyCredential) continue;
    part.hidden = false;
    const form = part.querySelector("form");
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
            const challenge = decode(part.dataset.challenge);
            let credential;
            if (part.dataset.passkey === "get") {
                credential = await navigator.credentials.get({
                    publicKey: { challenge, rpId: part.dataset.host, userVerification: "required" },
                });
                form.elements.credential.value = encode(credential.rawId);
                form.elements.signature.value = encode(credential.response.signature);
                form.elements.authenticator_data.value = encode(credential.response.authenticatorData);
            } else {
                const user = form.querySelector("[data-user]").dataset;
                credential = await navigator.credentials.create({
                    publicKey: {
                        challenge,
                        rp: { id: part.dataset.host, name: "Device Relay" },
                        user: { id: new TextEncoder().encode(user.user), name: user.name, displayName: user.name },
                        pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
                        authenticatorSelection: { residentKey: "required", userVerification: "required" },
                        attestation: "none",
                    },
                });
                form.elements.public_key.value = encode(credential.response.getPublicKey());
                form.elements.algorithm.value = credential.response.getPublicKeyAlgorithm();
                form.elements.authenticator_data.value = encode(credential.response.getAuthenticatorData());
            }
            form.elements.client_data.value = encode(credential.response.clientDataJSON);
            form.submit();
        } catch {
            part.querySelector("[role=alert]").hidden = false;
        }
    });
}
