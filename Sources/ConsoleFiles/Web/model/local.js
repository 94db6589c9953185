// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The agent of this machine, over its HTTP API.

import { title } from "../states.js";
import { language } from "../text.js";
import { readEvents } from "./events.js";
import { member } from "./json.js";
import { Tabs } from "./tabs.js";
import { translate } from "./words.js";

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
/** In milliseconds: the agent answers in this time, and in the longer one if it asks another device. It sends events, or a comment each 15 s. */
export const PATIENCE = { agent: 30_000, device: 150_000, events: 45_000 };

/**
 * Events: `command`, `device`, `ask`, `transfer`, with the API's object as `detail`; `reset`: everything may have changed;
 * `lost` and `found`: the agent's connection; `ended`: the session is over, with the problem that ended it.
 */
export class LocalModel extends EventTarget {
    #token = sessionStorage.getItem(TOKEN);
    #stop = new AbortController();
    #names = new Map();
    #tabs = new Tabs();

    get isSignedIn() { return this.#token !== null; }

    /** Exchanges the key of the address, which works once, for a token of this tab. */
    async signIn(key) {
        this.#end();
        const { token } = await this.#send("POST", "/v1/console/sessions", { body: { key } }).catch((error) => {
            // A key that was used twice ends another tab's session, which finds out so.
            this.#tabs.tell({ type: "reset" });
            throw error;
        });
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
        const devices = answer.devices.map((device) => ({ ...device, endpoints: endpoints.filter((each) => each.device === device.id) }));
        // An endpoint that publishes no app is a device of its own here.
        for (const endpoint of endpoints.filter((each) => !devices.some((device) => device.id === each.device))) {
            const same = devices.find((device) => device.id === endpoint.device);
            if (same) same.endpoints.push(endpoint);
            else devices.push({ ...endpoint, id: endpoint.device, apps: [], wakeable: false, paired: false, endpoints: [endpoint] });
        }
        for (const device of devices) {
            device.hasNamesake = devices.some((each) => each !== device && isSameName(each.name, device.name));
            device.title = title(device);
            for (const each of [device, ...device.endpoints]) this.#names.set(each.id, device.title);
        }
        return { devices, current: answer.current };
    }

    /** The title of a device, by its id or an endpoint's, as far as it is known. */
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
    doctor = (device, signal) => this.#send("GET", `/v1/doctor${device ? `?device=${encodeURIComponent(device)}` : ""}`,
        { signal, patience: PATIENCE.device });
    /** A page of a folder: the one after a name, or the first. */
    listing = (device, path, after, signal) => this.#send("GET", this.#page(this.#file(device, path), after), { signal, patience: PATIENCE.device });

    // What can be done

    /** Sends a link. The same key gives the same command again. */
    launch = (launch, key) => this.#send("POST", "/v1/launches", { body: launch, headers: { "Idempotency-Key": key } });
    cancel = (id) => this.#send("DELETE", `/v1/commands/${encodeURIComponent(id)}`);
    /**
     * Calls a service.
     * @param message The JSON text of an object. It is sent as it is: JavaScript's numbers would change some of it.
     * @returns The JSON text of the answer as it came.
     */
    async call(device, service, message, signal) {
        const text = `{"device":${JSON.stringify(device)},"service":${JSON.stringify(service)},"message":${message}}`;
        const answer = await this.#fetch("POST", "/v1/calls", { text, signal, patience: PATIENCE.device });
        if (!answer.ok) throw await this.#problem(answer);
        return member(await answer.text(), "answer") ?? "";
    }
    approve = (endpoint) => this.#send("POST", `/v1/endpoints/${endpoint}/approval`, { body: {} });
    revoke = (endpoint) => this.#send("POST", `/v1/endpoints/${endpoint}/revocation`, { body: {} });
    invite = () => this.#send("POST", "/v1/invitations", { body: {} });
    answer = (ask, answer) => this.#send("POST", `/v1/asks/${encodeURIComponent(ask)}`, { body: answer });

    async remove(kind, id) {
        const answer = await this.#send("DELETE", `/v1/${kind}/${encodeURIComponent(id)}`);
        // The other tabs show the same, and one of them may be signed out by this.
        this.#tabs.tell({ type: "reset" });
        return answer;
    }

    /** Fetches a file of a device. */
    async file(device, path) {
        const answer = await this.#fetch("GET", this.#file(device, path), { patience: PATIENCE.device });
        if (!answer.ok) throw await this.#problem(answer);
        return answer.blob().catch(() => { throw new Problem(0, { code: "brokenOff" }); });
    }

    // The wire

    #page = (path, after) => after ? `${path}?after=${encodeURIComponent(after)}` : path;
    #file = (device, path) => ["/v1/files", device, ...path].map((part, index) => index ? encodeURIComponent(part) : part).join("/");

    /**
     * Sends a request, with a body or with the text of one.
     * @param patience How long the agent may take until it begins to answer, in milliseconds.
     */
    async #fetch(method, path, { body, text, headers, signal, patience = PATIENCE.agent }) {
        const sent = { Accept: "application/json", ...headers };
        const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
        if (this.#token) sent.Authorization = `Bearer ${this.#token}`;
        if (content !== undefined) sent["Content-Type"] = "application/json";
        const limit = new AbortController();
        const leave = () => limit.abort(signal.reason);
        if (signal?.aborted) leave();
        signal?.addEventListener("abort", leave, { once: true });
        const timer = setTimeout(() => limit.abort(new Problem(0, { code: "agentSilent" })), patience);
        try {
            return await fetch(path, {
                method, headers: sent, signal: limit.signal, body: content, cache: "no-store", credentials: "omit", redirect: "error",
                referrerPolicy: "no-referrer",
            });
        } catch (error) {
            if (error.name === "AbortError" || error instanceof Problem) throw error;
            throw new Problem(0);
        } finally {
            clearTimeout(timer);
        }
    }

    async #problem(answer) {
        const english = await answer.json().catch(() => ({}));
        // Who is signed out gets no translation.
        const isEnd = answer.status === 401 && this.#token;
        if (isEnd) this.#end();
        const told = await this.#inWords(english);
        // The console names devices by their ids, and people by their names.
        const named = (text) => text?.replace(/\b[a-z2-7]{52}\b/g, (id) => this.nameOf(id) ?? `${id.slice(0, 8)}…`);
        const problem = new Problem(answer.status, { ...told, message: named(told.message), detail: named(told.detail) });
        if (isEnd) this.dispatchEvent(new CustomEvent("ended", { detail: problem }));
        return problem;
    }

    async #send(method, path, options = {}) {
        const answer = await this.#fetch(method, path, options);
        if (!answer.ok) throw await this.#problem(answer);
        return answer.status === 204 ? {} : this.#inWords(await answer.json());
    }

    /** An answer with its texts in the reader's language. Without a translation they stay English. */
    #inWords = (answer) => translate(answer, language, async (texts) => {
        if (!this.#token) return [];
        const translated = await this.#fetch("POST", "/v1/console/translations", { body: { language, texts } });
        return translated.ok ? (await translated.json()).texts : [];
    });

    /** Calls back at events until the signal. What cannot be read now is read again when the agent answers: the page says that it is lost. */
    on(types, action, signal) {
        const act = async ({ detail }) => { try { await action(detail); } catch { /* See above. */ } };
        for (const type of types) this.addEventListener(type, act, { signal });
    }

    /** Follows the agent's events until the session ends. One tab reads them for all. */
    follow() {
        const signal = this.#stop.signal;
        return this.#tabs.join(signal, { lead: (isLater) => this.#lead(signal, isLater), hear: (event) => this.#happen(event) });
    }

    /** An event here, as the tabs tell it to each other. */
    #happen({ type, detail, problem }) {
        this.dispatchEvent(new CustomEvent(type, { detail: problem ? new Problem(0, problem) : detail }));
    }

    /** Reads the agent's events, and tells them to all tabs. */
    async #lead(signal, isLater) {
        const tell = (event) => {
            this.#tabs.tell(event);
            this.#happen(event);
        };
        let last;
        let pause = 500;
        // What happened between two tabs that lead is read by everybody.
        let misses = isLater;
        while (!signal.aborted) {
            const silence = new AbortController();
            const leave = () => silence.abort(signal.reason);
            signal.addEventListener("abort", leave, { once: true });
            let timer;
            const heard = () => {
                clearTimeout(timer);
                timer = setTimeout(() => silence.abort(new Problem(0, { code: "agentSilent" })), PATIENCE.events);
            };
            try {
                const answer = await this.#fetch("GET", "/v1/events",
                    { signal: silence.signal, headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) } });
                if (!answer.ok) throw await this.#problem(answer);
                tell({ type: "found" });
                if (misses) tell({ type: "reset" });
                misses = false;
                pause = 500;
                heard();
                for await (const event of readEvents(answer.body, heard)) {
                    if (event.id) last = event.id;
                    let detail;
                    try { detail = event.data ? JSON.parse(event.data) : undefined; } catch { continue; }
                    tell({ type: event.type, detail: await this.#inWords(detail) });
                }
            } catch (error) {
                if (signal.aborted) return;
                // An agent without events: the views are read again from time to time.
                if (error.status === 404) tell({ type: "reset" });
                else tell({ type: "lost", problem: { code: error.code, message: error.message } });
            } finally {
                clearTimeout(timer);
                signal.removeEventListener("abort", leave);
            }
            await new Promise((resolve) => {
                setTimeout(resolve, pause);
                signal.addEventListener("abort", resolve, { once: true });
            });
            pause = Math.min(2 * pause, 15_000);
        }
    }
}

/** Whether two names look the same to a person. */
const isSameName = (first, second) => plain(first) === plain(second);
const plain = (name) => (name ?? "").normalize("NFC").trim().toLowerCase();
