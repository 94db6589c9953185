// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Shows the view of the address: `#/device/ID?x=y` is the view `device` with the rest of the path and the query.

import { entitle, h } from "./dom.js";
import { PATIENCE, Problem } from "./model/local.js";
import { t } from "./text.js";
import { problemCard } from "./question.js";

const views = {
    devices: () => import("./views/devices.js"),
    device: () => import("./views/device.js"),
    open: () => import("./views/open.js"),
    call: () => import("./views/call.js"),
    files: () => import("./views/files.js"),
    history: () => import("./views/history.js"),
    requests: () => import("./views/requests.js"),
    access: () => import("./views/access.js"),
    activity: () => import("./views/activity.js"),
    add: () => import("./views/add.js"),
    diagnosis: () => import("./views/diagnosis.js"),
};

/** The views of the navigation, in its order. */
export const MAIN_VIEWS = ["devices", "history", "requests", "access", "activity", "diagnosis"];

/** The address of a view. */
export function address(view, path = [], query = {}) {
    const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
    return `#/${[view, ...path].map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/**
 * Lets an action that reads and draws run once at a time: what changes meanwhile is read once more. Two answers could come in the wrong order,
 * and show what was.
 */
export function inTurn(action) {
    let running;
    let isStale = false;
    return () => {
        isStale = true;
        running ??= (async () => {
            try {
                while (isStale) {
                    isStale = false;
                    await action();
                }
            } finally {
                running = undefined;
            }
        })();
        return running;
    };
}

/** Has an action run now, and once more a moment after the last call. */
export function afterwards(action, signal) {
    let timer;
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
    return () => {
        clearTimeout(timer);
        timer = setTimeout(() => action().catch(() => {}), 1_000);
        return action();
    };
}

/** Fails when the agent should have sent a file. */
const tooLong = () => new Promise((_, reject) => setTimeout(() => reject(new Problem(0, { code: "agentSilent" })), PATIENCE.agent));

export class Router {
    #leave = new AbortController();
    #isFirst = true;
    #isStopped = false;

    /** @param shown Is called with the name of each view that is shown. */
    constructor(main, model, shown) {
        Object.assign(this, { main, model, shown });
        addEventListener("hashchange", () => this.show());
    }

    /** Shows nothing any more. */
    stop() {
        this.#isStopped = true;
        this.#end();
    }

    /** A question belongs to its view, and ends with it. */
    #end() {
        this.#leave.abort();
        for (const each of document.querySelectorAll("dialog")) each.close();
    }

    async show() {
        if (this.#isStopped) return;
        const [place, search] = location.hash.replace(/^#\/?/, "").split("?");
        const [name, ...path] = place.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
        const view = Object.hasOwn(views, name) ? name : "devices";
        this.#end();
        const leave = this.#leave = new AbortController();
        const title = h("h1", { tabindex: "-1" }, t(`view.${view}`));
        const body = h("div", { class: "view", "aria-busy": "true" }, h("p", { class: "quiet" }, t("wait")));
        const heading = h("div", { class: "heading" }, title);
        const context = {
            model: this.model, path, query: new URLSearchParams(search), signal: leave.signal, body, heading, title,
            /** Names the view more exactly. */
            name: (text) => {
                title.textContent = text;
                entitle({ view: text });
            },
            /** Calls back at events of the model, until the person leaves. */
            on: (types, action) => this.model.on(types, action, leave.signal),
        };
        context.name(t(`view.${view}`));
        this.main.replaceChildren(heading, body);
        this.shown(view);
        scrollTo(0, 0);
        if (!this.#isFirst) title.focus({ preventScroll: true });
        this.#isFirst = false;
        try {
            const module = await Promise.race([tooLong(), views[view]().catch((error) => {
                // A file that cannot be fetched is an agent that does not answer.
                throw error instanceof TypeError ? new Problem(0) : error;
            })]);
            if (!leave.signal.aborted) await module.show(context);
        } catch (error) {
            if (!leave.signal.aborted) body.replaceChildren(problemCard(error, () => this.show()));
        }
        body.removeAttribute("aria-busy");
    }
}
