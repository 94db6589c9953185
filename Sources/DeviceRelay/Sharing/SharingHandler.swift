// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
public import RelayProtocol

/// Receives what other devices send to an app: files, folders, links and texts.
public struct SharingHandler: Sendable {
    /// What a device wants to send.
    public struct Offer: Hashable, Sendable {
        /// The sender.
        public let caller: AppServiceCaller
        /// The names of the files and folders.
        public let names: [String]
        /// The number of files, with those in folders.
        public let fileCount: Int
        /// The bytes of all files.
        public let bytes: Int64
        /// The links.
        public let uris: [LaunchURI]
        /// The texts. They may have any characters.
        public let texts: [String]
    }

    /// What arrived.
    public struct Received: Hashable, Sendable {
        /// What was offered.
        public let offer: Offer
        /// The files and folders, at their places.
        public let urls: [URL]
        /// The files that did not arrive, as paths within what was offered.
        public let missing: [String]
    }

    /// The answer to an offer.
    public enum Answer: Hashable, Sendable {
        /// It is taken into this folder, which is created if it does not exist. A file never replaces another one.
        case accept(into: URL)
        /// It is declined.
        case decline
    }

    /// How long the app has for its answer. Then the offer is declined.
    static let patience = Duration.seconds(60)
    /// The transfers that run at once, of all devices.
    static let transfers = 16
    static let transfersOfADevice = 4

    let decide: @Sendable (Offer) async -> Answer
    let progress: @Sendable (Offer, AsyncValues<NearShareProgress>) async -> Void
    let received: @Sendable (Received) async throws -> Void
    /// Called when the connection of a sender has ended after a transfer, with whether the sender knows the result. If the connection was
    /// lost, the sender may come back to ask for it.
    package var ended: @Sendable (Offer, Bool) -> Void = { _, _ in }
    /// Called when the connection of a sender has ended and this device could not store what it sent.
    package var failed: @Sendable (Offer, NearShareError.Code) -> Void = { _, _ in }

    /// - Parameters:
    ///   - decide: Decides about an offer, within a minute; its task is cancelled then. An attempt of the sender to continue a transfer that
    ///     was accepted is not asked about again.
    ///   - progress: Runs while a transfer runs, to show how far it is. Default: nothing.
    ///   - received: Called when everything is on the disk, before the sender learns it. It takes the links and texts; if it throws, the
    ///     sender learns that they could not be stored.
    public init(
        decide: @escaping @Sendable (Offer) async -> Answer,
        progress: @escaping @Sendable (Offer, AsyncValues<NearShareProgress>) async -> Void = { _, _ in },
        received: @escaping @Sendable (Received) async throws -> Void
    ) {
        self.decide = decide
        self.progress = progress
        self.received = received
    }
}

extension SharingHandler.Offer {
    init(_ offer: ShareOffer, from caller: AppServiceCaller) {
        self.init(
            caller: caller,
            names: offer.tops.compactMap { $0.path.first?.text },
            fileCount: offer.fileCount,
            bytes: offer.bytes,
            uris: offer.notes.compactMap { $0.kind == .uri ? try? LaunchURI($0.content) : nil },
            texts: offer.notes.compactMap { $0.kind == .text ? $0.content : nil }
        )
    }
}
