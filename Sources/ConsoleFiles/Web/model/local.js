// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The agent of this machine, over its HTTP API.

import { readEvents } from "./events.js";

/** A request that failed, with the code of the API. Without an answer, `status` is 0. */
export class Problem extends Error {
    constructor(status, { code, message, detail, command, retryAfter } = {}) {
        super(message ?? detail ?? "");
        Object.assign(this, { status, code: code ?? (status ? "failed" : "noAgent"), command, retryAfter });
    }
}

/** The API answers with at most so many entries. */
const PAGE = 100;
const TOKEN = "device-relay.token";

/**
 * Events: `command`, `device`, `ask`, `transfer`, with the API's object as `detail`; `reset`: everything may have changed;
 * `lost` and `found`: the agent's connection; `ended`: the session is over, with the problem that ended it.
 */
export class LocalModel extends EventTarget {
    #token = sessionStorage.getItem(TOKEN);
    #stop = new AbortController();
    #names = new Map();

    get isSignedIn() { return this.#token !== null; }

    /** Exchanges the key of the address, which works once, for a token of this tab. */
    async signIn(key) {
        this.#end();
        const { token } = await this.#send("POST", "/v1/console/sessions", { body: { key } });
        this.#token = token;
        sessionStorage.setItem(TOKEN, token);
    }

    async signOut() {
        // An agent that does not answer has no session any more, or ends it after its time: this tab forgets it in any case.
        await this.#send("DELETE", "/v1/console/sessions/current").catch(() => {});
        this.#end();
        this.dispatchEvent(new CustomEvent("ended"));
    }

    #end() {
        this.#token = null;
        sessionStorage.removeItem(TOKEN);
        this.#stop.abort();
        this.#stop = new AbortController();
    }

    // What there is

    about = () => this.#send("GET", "/v1");

    /** The devices, each with its endpoints. */
    async devices() {
        const answer = await this.#send("GET", "/v1/devices?all=true");
        const endpoints = answer.endpoints ?? [];
        for (const each of [...answer.devices, ...endpoints]) this.#names.set(each.id, each.name);
        const devices = answer.devices.map((device) => ({ ...device, endpoints: endpoints.filter((each) => each.device === device.id) }));
        // An endpoint that publishes no app is a device of its own here.
        for (const endpoint of endpoints.filter((each) => !devices.some((device) => device.id === each.device))) {
            const same = devices.find((device) => device.id === endpoint.device);
            if (same) same.endpoints.push(endpoint);
            else devices.push({ ...endpoint, id: endpoint.device, apps: [], wakeable: false, paired: false, endpoints: [endpoint] });
        }
        return { devices, current: answer.current };
    }

    /** The name of a device or endpoint, as far as it is known. */
    nameOf = (id) => this.#names.get(id);

    /** Whether there may be more after a page. */
    hasMore = (page) => page.length >= PAGE;

    commands = (after) => this.#send("GET", this.#page("/v1/commands", after));
    command = (id) => this.#send("GET", `/v1/commands/${encodeURIComponent(id)}`);
    asks = () => this.#send("GET", "/v1/asks");
    grants = () => this.#send("GET", "/v1/grants");
    tokens = () => this.#send("GET", "/v1/tokens");
    webhooks = () => this.#send("GET", "/v1/webhooks");
    deliveries = (id) => this.#send("GET", `/v1/webhooks/${encodeURIComponent(id)}/deliveries`);
    sessions = () => this.#send("GET", "/v1/console/sessions");
    audit = (after) => this.#send("GET", this.#page("/v1/audit", after));
    doctor = (device, signal) => this.#send("GET", `/v1/doctor${device ? `?device=${encodeURIComponent(device)}` : ""}`, { signal });
    listing = (device, path) => this.#send("GET", this.#file(device, path));

    // What can be done

    /** Sends a link. The same key gives the same command again. */
    launch = (launch, key) => this.#send("POST", "/v1/launches", { body: launch, headers: { "Idempotency-Key": key } });
    cancel = (id) => this.#send("DELETE", `/v1/commands/${encodeURIComponent(id)}`);
    call = (call, signal) => this.#send("POST", "/v1/calls", { body: call, signal });
    approve = (endpoint) => this.#send("POST", `/v1/endpoints/${endpoint}/approval`, { body: {} });
    revoke = (endpoint) => this.#send("POST", `/v1/endpoints/${endpoint}/revocation`, { body: {} });
    invite = () => this.#send("POST", "/v1/invitations", { body: {} });
    answer = (ask, answer) => this.#send("POST", `/v1/asks/${encodeURIComponent(ask)}`, { body: answer });
    remove = (kind, id) => this.#send("DELETE", `/v1/${kind}/${encodeURIComponent(id)}`);

    /** Fetches a file of a device. */
    async file(device, path) {
        const answer = await this.#fetch("GET", this.#file(device, path), {});
        if (!answer.ok) throw await this.#problem(answer);
        return answer.blob();
    }

    // The wire

    #page = (path, after) => after ? `${path}?after=${encodeURIComponent(after)}` : path;
    #file = (device, path) => ["/v1/files", device, ...path].map((part, index) => index ? encodeURIComponent(part) : part).join("/");

    async #fetch(method, path, { body, headers, signal }) {
        const sent = { Accept: "application/json", ...headers };
        if (this.#token) sent.Authorization = `Bearer ${this.#token}`;
        if (body !== undefined) sent["Content-Type"] = "application/json";
        try {
            return await fetch(path, {
                method, headers: sent, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
                    credentials: "omit",
                redirect: "error", referrerPolicy: "no-referrer",
            });
        } catch (error) {
            if (error.name === "AbortError") throw error;
            throw new Problem(0);
        }
    }

    async #problem(answer) {
        const told = await answer.json().catch(() => ({}));
        // The console names devices by their ids, and people by their names.
        const named = (text) => text?.replace(/\b[a-z2-7]{52}\b/g, (id) => this.nameOf(id) ?? `${id.slice(0, 8)}…`);
        const problem = new Problem(answer.status, { ...told, message: named(told.message), detail: named(told.detail) });
        if (answer.status === 401 && this.#token) {
            this.#end();
            this.dispatchEvent(new CustomEvent("ended", { detail: problem }));
        }
        return problem;
    }

    async #send(method, path, options = {}) {
        const answer = await this.#fetch(method, path, options);
        if (!answer.ok) throw await this.#problem(answer);
        return answer.status === 204 ? {} : answer.json();
    }

    /** Follows the agent's events until the session ends. */
    async follow() {
        const signal = this.#stop.signal;
        let last;
        let pause = 500;
        while (!signal.aborted) {
            try {
                const answer = await this.#fetch("GET", "/v1/events",
                    { signal, headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) } });
                if (!answer.ok) throw await this.#problem(answer);
                this.dispatchEvent(new Event("found"));
                pause = 500;
                for await (const event of readEvents(answer.body)) {
                    if (event.id) last = event.id;
                    let detail;
                    try { detail = event.data ? JSON.parse(event.data) : undefined; } catch { continue; }
                    this.dispatchEvent(new CustomEvent(event.type, { detail }));
                }
            } catch (error) {
                if (signal.aborted) return;
                // An agent without events: the views are read again from time to time.
                if (error.status === 404) this.dispatchEvent(new Event("reset"));
                else this.dispatchEvent(new CustomEvent("lost", { detail: error }));
            }
            await new Promise((resolve) => setTimeout(resolve, pause));
            pause = Math.min(2 * pause, 15_000);
        }
    }
}
