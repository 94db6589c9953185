// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Who may do what here: grants, tokens, webhooks and sessions of the console.

import { button, card, h, keepFocus, redraw, row, rows, say, sentence, state, tag } from "../dom.js";
import { attempt, problemText, question } from "../question.js";
import { afterwards, inTurn } from "../router.js";
import { list, parts, t, time } from "../text.js";

export async function show({ model, body, on, signal }) {
    const draw = inTurn(async () => {
        const [grants, tokens, webhooks, sessions] = await Promise.all(
            [model.grants(), model.tokens(), model.webhooks(), model.sessions(),
                model.devices()].map((each) => each.catch((error) => ({ error }))));
        if (signal.aborted) return;
        redraw(body,
            part("grants", grants, grants.grants?.map(drawGrant)),
            part("tokens", tokens, tokens.tokens?.map(drawToken), h("pre", {}, "relay token add NAME --scope launch")),
            part("webhooks", webhooks, webhooks.webhooks?.map(drawWebhook)),
            part("sessions", sessions, sessions.sessions?.map(drawSession)));
    });
    await draw();
    on(["device", "reset"], draw);
    // An answer may make a grant, and a command uses one: a moment after the event.
    on(["ask", "command", "transfer"], afterwards(draw, signal));

    function part(name, answer, list, ...more) {
        const nothing = answer.error && (answer.error.status === 404 ? t("access.notHere") : problemText(answer.error));
        return card(t(`access.${name}`), h("p", { class: "quiet" }, t(`access.${name}.text`)), more,
            rows(list ?? [], sentence(nothing ?? t(`access.${name}.none`))));
    }

    function removal(kind, entry, name, route = kind) {
        return button(t(`access.${kind}.remove`), remove,
            { look: "destructive", key: `remove-${entry.id}`, label: t(`access.${kind}.remove.of`, { name }) });

        async function remove() {
            const yes = await question({
                title: t(`access.${kind}.remove.title`, { name }), text: h("p", {}, t(`access.${kind}.remove.text`, { name })),
                yes: t(`access.${kind}.remove`), isDestructive: true,
            });
            if (!yes || !await attempt(body.firstChild, () => model.remove(route, entry.id))) return;
            say(t("access.removed", { name }));
            await draw();
            keepFocus(body);
        }
    }

    function uses(entry) {
        // What the settings allow is not counted.
        if (entry.source === "settings") return undefined;
        if (!entry.lastUse) return entry.uses === 0 && t("access.unused");
        return parts(entry.uses === 1 ? "access.used.once" : "access.used", { count: entry.uses ?? "", time: time(entry.lastUse) });
    }

    function drawGrant(grant) {
        const device = model.nameOf(grant.device?.id ?? grant.device) ?? grant.device?.name ?? String(grant.device ?? "").slice(0, 8);
        const who = grant.known ? t("access.known") : device;
        const what = grant.scheme ? t("grant.scheme", grant) : grant.service ? t("grant.service", grant) : grant.folder ? t("grant.folder",
            grant)
            : t("grant.transfer");
        const icon = grant.scheme ? "link" : grant.service ? "call" : grant.folder ? "folder" : "transfer";
        const how = grant.handler && t("grant.handler", { name: grant.handler.name });
        return row(icon, [who, " · ", what, how && ` ${how}`], [joined(
            grant.until ? parts("access.until", { time: time(grant.until) }) : t("access.noEnd"), t(`grant.source.${grant.source}`),
            uses(grant),
        )], grant.source !== "settings" && removal("grants", grant, who));
    }

    function drawToken(token) {
        const devices = token.devices?.map((each) => model.nameOf(each) ?? each.slice(0, 8));
        const limits = [devices, token.schemes, token.services].flatMap((each) => each ?? []);
        return row("key", token.name, [
            token.scopes.map((scope) => [tag(scope), " "]), limits.length > 0 && t("access.only", { list: list(limits) }),
            joined(token.expires && parts("access.until", { time: time(token.expires, true) }), uses(token)),
        ], removal("tokens", token, token.name));
    }

    function drawWebhook(webhook) {
        const place = h("div");
        const details = h("details", { "data-key": `deliveries-${webhook.id}`,
            ontoggle: () => details.open && drawDeliveries(webhook, place) },
            h("summary", {}, t("access.deliveries")), place);
        return row("hook", webhook.url, [
            list(webhook.types ?? []), webhook.missed > 0 && state({ word: t("access.missed", { count: webhook.missed }), tone: "warn" }),
                details,
        ], removal("webhooks", webhook, webhook.url));
    }

    async function drawDeliveries(webhook, place) {
        const { deliveries } = await model.deliveries(webhook.id).catch(() => ({ deliveries: [] }));
        place.replaceChildren(rows(deliveries.map((delivery) => h("li", { class: "row" }, h("div", { class: "what" },
            state(delivery.status >= 200 && delivery.status < 300 ? { word: t("access.delivered"), tone: "good" }
                : { word: delivery.status ? t("access.answered", { status: delivery.status }) : t("access.unreached"), tone: "bad" })),
        h("span", { class: "meta" }, time(delivery.time)))), t("access.deliveries.none")));
    }

    function drawSession(session) {
        const name = session.current ? t("access.thisTab") : t("access.tab");
        return row("browser", name, [
            joined(parts("access.begun", { time: time(session.begun) }), parts("access.until", { time: time(session.expires) })),
        ], session.current ? button(t("signOut"), () => model.signOut()) : removal("sessions", session, name, "console/sessions"));
    }
}

/** Facts on one line. */
const joined = (...facts) => facts.filter(Boolean).flatMap((fact, index) => [index > 0 && " · ", fact]);
