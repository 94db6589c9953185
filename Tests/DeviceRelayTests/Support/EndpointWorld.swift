// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import DeviceRelay
@testable import RelayProtocol

/// The parts of an endpoint that send and take commands, with a real journal, on a loop of their own; the test is the relay.
actor EndpointWorld {
    nonisolated let endpoint: EndpointContext
    nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
    /// The messages that the endpoint sent to the relay.
    nonisolated let sentMessages = CurrentValue<[EndpointMessage]>([])
    private let link = TestLink()
    private let identity: OwnIdentity
    private let peers: Peers
    private let outbox: Outbox
    private let inbox: Inbox
    private let storageGuard: StorageGuard

    /// - Parameter directory: Of one endpoint; another world on it is the endpoint's next process.
    init(_ directory: TemporaryDirectory, app: RemoteSystemAppRegistration? = nil) throws {
        endpoint = try .sample(directory)
        let (loop, journal) = (endpoint.loop, endpoint.journal)
        let clock = RelayClock(loop, journal, offset: 0)
        storageGuard = StorageGuard(loop, journal, endpoint.logger)
        identity = OwnIdentity(
            endpoint,
            stored: .init(account: "account", record: nil, hasEnumerated: false),
            invitationProof: nil
        )
        let book = PeerBook(own: endpoint.id, directoryName: "me", account: "account", hasEnumerated: false)
        peers = Peers(endpoint, link: link, clock: clock, book: book, directories: CurrentValue([:]))
        outbox = Outbox(endpoint, link: link, clock: clock, storage: storageGuard, identity: identity, peers: peers)
        inbox = Inbox(
            endpoint,
            stored: try journal.read { try $0.target() },
            link: link,
            clock: clock,
            storage: storageGuard,
            identity: identity,
            peers: peers,
            app: { $0 == app?.appID ? app : nil }
        )
        link.sentMessages = sentMessages
    }

    /// This endpoint's record.
    func record() throws -> Signed<EndpointRecord> { try identity.currentRecord() }

    /// The relay lists endpoints, and that is all there are.
    func list(_ records: Signed<EndpointRecord>...) {
        for record in records {
            peers.take(
                .added(
                    .init(
                        endpoint: record.payload.endpointID,
                        introduction: Introduction(record: Blob(record.encoded)),
                        registrations: [],
                        presence: Presence(.available, .connected)
                    )
                )
            )
        }
        peers.take(.enumerated)
        inbox.takeHeld()
    }

    func removed(_ message: RelayMessage.EndpointRemoved) { peers.take(.removed(message)) }

    func connect() {
        link.isConnected = true
        outbox.connected()
        inbox.connected()
    }

    func disconnect() {
        link.disconnect()
        outbox.disconnected()
        inbox.disconnected()
    }

    func startInbox() { inbox.start() }

    func answer(_ ref: RequestRef, _ answer: ControlAnswer) { link.answer(ref, answer) }

    func passDelays() { link.passDelays() }

    /// Waits until a delay has begun.
    func delayBegins() async { while link.delayed.isEmpty { await Task.yield() } }

    /// How many delays have not passed.
    func delays() -> Int { link.delayed.count }

    func offered(_ blob: Blob<BlobKinds.Command>, from sender: Signed<EndpointRecord>) {
        inbox.offered(.init(command: blob, sender: Introduction(record: Blob(sender.encoded))))
    }

    func receiveStatus(_ status: RelayMessage.CommandStatus) { outbox.receive(status) }

    func launch(_ uri: String, on target: EndpointID, appID: String) async throws -> (SentCommand, Outbox.State) {
        let body = CommandBody.launch(.init(uri: try LaunchURI(uri)))
        return try await outbox.submit(
            body,
            to: ResolvedTarget(endpoint: target, appID: appID),
            life: .seconds(60),
            senderApp: nil,
            key: nil
        )
    }

    func cancel(_ id: CommandID) async throws { try await outbox.cancel(id) }

    func commands() async throws -> [SentCommand] { try await outbox.commands().map(\.0) }

    /// The process stops: data that is not on disk is lost.
    func crash() { inbox.stop() }

    /// The process ends in order.
    func end() async {
        inbox.stop()
        await endpoint.loop.end()
        await outbox.end()
        await inbox.end()
        endpoint.journal.close()
    }

    /// The first message of a kind that is not among those that were seen.
    nonisolated func next<Found: Sendable>(_ find: @escaping @Sendable (EndpointMessage) -> Found?) async throws -> Found {
        let sentMessages = await sentMessages.first { $0.contains { find($0) != nil } }
        guard let found = sentMessages?.lazy.compactMap(find).first else { throw CancellationError() }
        return found
    }
}
