// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import NIOPosix
import NIOSSL
import RelayProtocol
import RelayPush
import RelayServer
import Synchronization

/// Connects the relay's core with the push services: finds the credential of an app, and passes on what became of a wake.
final class PushWakes: WakeSender {
    /// A credential in use.
    fileprivate struct Entry: Sendable {
        var id: PushCredentialID
        var identity: AppIdentity
        var credential: StoredCredential
    }

    /// A request without an outcome.
    private struct Waiting: Sendable {
        var number: Int
        var urgency: WakePayload.Urgency
        var credential: PushCredentialID
        var report: @Sendable (WakeOutcome) -> Void

        /// The dispatcher combines wakes. An order's outcome does not count for a newer request.
        func isContained(in order: WakeOrder) -> Bool {
            number <= order.number && urgency == order.wake.payload.urgency && credential == order.credential
        }
    }

    private enum Input: Sendable {
        case order(WakeOrder)
        case connected(EndpointID, [Waiting])
        /// Another node may serve the account of these endpoints.
        case forgotten([EndpointID])
        /// A request that is not passed on.
        case refused(@Sendable (WakeOutcome) -> Void, reason: String)
    }

    private struct State {
        /// Operator commands create no channels, because only `run` shuts channels down.
        var isPrepared = false
        var entries: [Entry] = []
        /// The credentials that a provider has rejected, and accepted no wake with since.
        var rejected: Set<PushCredentialID> = []
        var wakeable = WakeableApps()
        /// An endpoint with an order that the dispatcher has not ended is among them.
        var waiting: [WakeAccount: [EndpointID: [Waiting]]] = [:]
        var lastNumber = 0

        mutating func update() {
            rejected.formIntersection(entries.map(\.id))
            wakeable = WakeableApps(entries.compactMap { $0.wakeable(isRejected: rejected.contains($0.id)) })
        }

        /// Removes requests of an endpoint, and returns them.
        mutating func end(_ endpoint: EndpointID, of account: WakeAccount, where isEnded: (Waiting) -> Bool) -> [Waiting] {
            guard var endpoints = waiting[account], let requests = endpoints[endpoint] else { return [] }
            let others = requests.filter { !isEnded($0) }
            endpoints[endpoint] = others.isEmpty ? nil : others
            waiting[account] = endpoints.isEmpty ? nil : endpoints
            return requests.filter(isEnded)
        }
    }

    /// Requests that the dispatcher has not taken. One beyond that is not sent; the schedule of the relay asks again.
    private static let maximumInputs = 16_384
    /// Requests of one endpoint without an outcome. The oldest one beyond that gets none: the outcome of the newest counts for it.
    private static let maximumWaiting = 8
    /// How long the dispatcher sends nothing to a registration that belongs to another credential, in milliseconds.
    private static let mismatchTime: Int64 = 3_600_000

    private let registry: AppRegistry
    private let makeChannel: @Sendable (PushCredential, PushCredentialID) -> any PushChannel
    private let now: @Sendable () -> Milliseconds
    private let logger: Logger
    private let state = Mutex(State())
    /// For the dispatcher, in order.
    private let inputs: AsyncStream<Input>
    private let input: AsyncStream<Input>.Continuation
    private let dispatcher: PushDispatcher

    /// - Parameter sharedToken: Where nodes share the token of a credential; `nil` if this one is the only one.
    convenience init(
        _ settings: PushSettings,
        registry: AppRegistry,
        metrics: PrometheusMetrics,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        sharedToken: @escaping @Sendable (PushCredentialID) -> (any SharedToken)?
    ) throws {
        let channels = try PushChannels(settings)
        self.init(registry: registry, metrics: metrics, clock: .system, now: now, logger: logger) {
            channels.channel(for: $0, sharing: sharedToken($1))
        }
    }

    /// - Parameter clock: The dispatcher's.
    init(
        registry: AppRegistry,
        metrics: PrometheusMetrics,
        clock: WakeClock,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger,
        makeChannel: @escaping @Sendable (PushCredential, PushCredentialID) -> any PushChannel
    ) {
        self.registry = registry
        self.makeChannel = makeChannel
        self.now = now
        self.logger = logger
        (inputs, input) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumInputs))
        let reports = Reports()
        self.dispatcher = PushDispatcher([:], clock: clock, logger: logger, metrics: metrics) { reports.receive($0) }
        reports.begin { [weak self] in self?.take($0) }
    }

    /// Makes the channels, so that endpoints can register as soon as the relay listens.
    func prepare() async {
        state.withLock { $0.isPrepared = true }
        await reload()
    }

    /// Sends wakes until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.dispatcher.run() }
            for await input in inputs {
                switch input {
                case .order(let order): await dispatcher.send(order)
                case .connected(let endpoint, let waiting):
                    for request in waiting { request.report(.failed(reason: WakeReport.NotSent.connected.name)) }
                    await dispatcher.drop(endpoint, .connected)
                case .forgotten(let endpoints):
                    for endpoint in endpoints { await dispatcher.drop(endpoint, .elsewhere) }
                case .refused(let report, let reason): report(.failed(reason: reason))
                }
            }
        }
    }

    /// Reads the credentials again, after the operator has changed them. After an error the old ones stay.
    /// - Returns: Whether they were read.
    @discardableResult
    func reload() async -> Bool {
        guard state.withLock(\.isPrepared) else { return false }
        let usable: [(id: String, identity: AppIdentity, credential: StoredCredential)]
        do {
            usable = try await registry.usableCredentials()
        } catch {
            logger.error("the old push credentials stay", metadata: ["error": "\(error)"])
            return false
        }
        let entries = usable.map { Entry(id: PushCredentialID($0.id), identity: $0.identity, credential: $0.credential) }
        let before = state.withLock { state in
            let before = state.entries
            state.entries = entries
            state.update()
            return before
        }
        for entry in before where !entries.contains(where: { $0.id == entry.id }) { await dispatcher.replace(nil, for: entry.id) }
        for entry in entries where !before.contains(where: { $0.id == entry.id }) {
            await dispatcher.replace(makeChannel(PushCredential(entry.credential), entry.id), for: entry.id)
        }
        return true
    }

    // MARK: The core

    var wakeable: WakeableApps { state.withLock(\.wakeable) }

    func wake(_ request: WakeRequest, report: @escaping @Sendable (WakeOutcome) -> Void) {
        guard let kind = request.channel.kind, let credential = credential(kind, request.appID) else {
            input.yield(.refused(report, reason: "there are no credentials for the app"))
            return
        }
        state.withLock { state in
            state.lastNumber += 1
            let order = WakeOrder(
                Wake(request.payload, alert: request.alert, expiry: request.expires),
                account: WakeAccount(request.account.rawValue),
                registration: request.channel,
                registered: request.registered,
                credential: credential,
                number: state.lastNumber
            )
            let waiting = Waiting(number: order.number, urgency: request.payload.urgency, credential: credential, report: report)
            // Within the lock: the inputs are in the order of their numbers.
            guard case .enqueued = input.yield(.order(order)) else { return }
            var others = state.waiting[order.account]?[request.payload.endpoint] ?? []
            if others.count >= Self.maximumWaiting { others.removeFirst() }
            state.waiting[order.account, default: [:]][request.payload.endpoint] = others + [waiting]
        }
    }

    func connected(_ endpoint: EndpointID, of account: AccountID) {
        // The outcome of an earlier push does not count after the connection.
        state.withLock { state in
            _ = input.yield(.connected(endpoint, state.end(endpoint, of: WakeAccount(account.rawValue)) { _ in true }))
        }
    }

    func forget(_ account: AccountID) {
        state.withLock { state in
            guard let endpoints = state.waiting.removeValue(forKey: WakeAccount(account.rawValue))?.keys else { return }
            _ = input.yield(.forgotten(Array(endpoints)))
        }
    }

    func hasWakes(of account: AccountID) -> Bool { state.withLock { $0.waiting[WakeAccount(account.rawValue)] != nil } }

    /// The credential for an app: of the identity that contains the app, else of `default`. A newer one takes precedence. If all are stopped,
    /// the dispatcher says until when.
    private func credential(_ kind: PushRegistration.Kind, _ appID: String) -> PushCredentialID? {
        let serving = state.withLock { $0.entries.filter { $0.serves(kind, appID) } }
        let usable = serving.filter { dispatcher.canSend(with: $0.id) }
        let candidates = usable.isEmpty ? serving : usable
        return (candidates.last { $0.identity.id != AppIdentity.defaultID } ?? candidates.last)?.id
    }

    // MARK: The dispatcher

    private func take(_ report: WakeReport) {
        switch report {
        case .accepted(let order, _):
            setRejected(order.credential, false)
            end(order, .accepted)
        case .registrationGone(let order, let since): end(order, .gone(since: since))
        case .notSent(let order, .tooOften(let wait)), .notSent(let order, .paused(let wait)),
            .notSent(let order, .credentialStopped(let wait)):
            end(order, .suppressed(until: Milliseconds(clamping: now().count + wait)))
        case .notSent(let order, .mismatched):
            end(order, .refused(until: Milliseconds(clamping: now().count + Self.mismatchTime)))
        case .notSent(let order, .rejected), .notSent(let order, .dropped): end(order, .refused(until: nil))
        case .notSent(let order, let why): end(order, .failed(reason: why.name))
        // The dispatcher logs it, and sends nothing with the credential for a time.
        case .credentialStopped(let credential, _): setRejected(credential, true)
        }
    }

    private func setRejected(_ credential: PushCredentialID, _ isRejected: Bool) {
        state.withLock { state in
            guard state.rejected.contains(credential) != isRejected else { return }
            if isRejected { state.rejected.insert(credential) } else { state.rejected.remove(credential) }
            state.update()
        }
    }

    private func end(_ order: WakeOrder, _ outcome: WakeOutcome) {
        let endpoint = order.wake.payload.endpoint
        let ended = state.withLock { $0.end(endpoint, of: order.account) { $0.isContained(in: order) } }
        for request in ended { request.report(outcome) }
    }
}

extension PushWakes.Entry {
    func wakeable(isRejected: Bool) -> WakeableApps.Credential? {
        guard let kind = PushRegistration.Kind(rawValue: credential.type) else { return nil }
        var apps = identity.id == AppIdentity.defaultID ? nil : identity.apps.map(\.id)
        // A key of Apple's is for one app.
        if case .apns(_, _, _, let topic) = credential { apps = apps.map { $0.filter { $0.utf8.elementsEqual(topic.utf8) } } ?? [topic] }
        return WakeableApps.Credential(kind, apps: apps, isRejected: isRejected)
    }

    func serves(_ kind: PushRegistration.Kind, _ appID: String) -> Bool {
        guard credential.type.utf8.elementsEqual(kind.rawValue.utf8) else { return false }
        // A key of Apple's is for one app.
        if case .apns(_, _, _, let topic) = credential, !topic.utf8.elementsEqual(appID.utf8) { return false }
        return identity.id == AppIdentity.defaultID || identity.apps.contains { $0.id.utf8.elementsEqual(appID.utf8) }
    }
}

/// Passes reports to their receiver, which is made after the dispatcher.
private final class Reports: Sendable {
    private let receiver = Mutex<(@Sendable (WakeReport) -> Void)?>(nil)

    func begin(_ receive: @escaping @Sendable (WakeReport) -> Void) { receiver.withLock { $0 = receive } }
    func receive(_ report: WakeReport) { receiver.withLock { $0 }?(report) }
}

extension PushCredential {
    fileprivate init(_ stored: StoredCredential) {
        switch stored {
        case .apns(let team, let keyID, let key, let topic): self = .apns(.init(team: team, keyID: keyID, key: key, topic: topic))
        case .fcm(let project, let clientEmail, let key): self = .fcm(.init(project: project, clientEmail: clientEmail, key: key))
        case .wnsPackage(let sid, let secret): self = .wns(.init(kind: .uwp, client: sid, secret: secret))
        case .wnsAppSDK(let tenant, let client, let secret):
            self = .wns(.init(kind: .appSDK(tenant: tenant), client: client, secret: secret))
        case .webPush(let key, let contact): self = .webPush(.init(key: key, contact: contact))
        }
    }
}

extension PushChannels {
    fileprivate init(_ settings: PushSettings) throws {
        self.init(group: MultiThreadedEventLoopGroup.singleton)
        webPush = .init(allowsPrivateAddresses: settings.allowsPrivateAddresses)
        if let file = settings.authoritiesFile {
            do {
                roots = .certificates(try NIOSSLCertificate.fromPEMFile(file))
            } catch {
                throw ConfigurationError("pushAuthoritiesFile: \(file) cannot be read, or has no certificate in PEM")
            }
        }
        for (name, text) in settings.addresses {
            guard let address = ProviderAddress(text) else {
                throw ConfigurationError("pushAddresses: '\(text)' is neither an https URL nor an http URL on loopback")
            }
            switch name {
            case .apns: addresses.apns = address
            case .apnsSandbox: addresses.apnsSandbox = address
            case .fcm: addresses.fcm = address
            case .fcmToken: addresses.fcmToken = address
            case .wns: addresses.wnsOrigin = address.origin
            case .wnsPackageToken: addresses.wnsUWPToken = address
            case .wnsAppSDKToken: addresses.wnsAppSDKToken = address
            }
        }
    }
}
