// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// The content of files of the folder that another device shares. It comes over one bulk stream.
struct RemoteContent: RemoteReceiving {
    /// The time limit of a response that comes after the content, which has its own: practically none.
    private static let patience = Duration.seconds(365 * 86_400)

    private let connection: AppServiceConnection
    private let receiver: BulkReceiver

    init(_ connection: AppServiceConnection, _ receiver: BulkReceiver) { (self.connection, self.receiver) = (connection, receiver) }

    /// Opens the stream.
    static func stream(_ service: BulkConnection) async throws -> BulkStream {
        let token: [UInt8]
        do {
            token = try await service.connection.call(FileServiceMessages.Content()).token
        } catch  where error.code == .invalidMessage {
            throw AgentError(
                "versionMismatch",
                "the other device has an older version, from which files cannot be fetched; update it",
                .failed
            )
        }
        return try await service.openStream(token)
    }

    func receive(
        _ files: [(path: String, entry: RemoteEntry)],
        have: [ShareMessages.Have] = [],
        into taker: any BulkTaking
    ) async throws -> [Int: FileServiceMessages.Problem] {
        try await receive(files, have: have, offset: nil, into: taker)
    }

    /// - Parameter offset: Where the content of each file is to begin. A device with an earlier version sends all of it.
    func receive(
        _ files: [(path: String, entry: RemoteEntry)],
        have: [ShareMessages.Have] = [],
        offset: Int64?,
        into taker: any BulkTaking
    ) async throws -> [Int: FileServiceMessages.Problem] {
        let have = Dictionary(have.map { (Int($0.entry), $0) }, uniquingKeysWith: { $1 })
        return try await receiver.expect(files.count, into: taker) { first in
            let wanted = files.enumerated().map { number, file in
                FileServiceMessages.Send.File(
                    entry: first + UInt32(number),
                    path: file.path,
                    etag: file.entry.etag,
                    length: have[number]?.length,
                    digest: have[number]?.digest,
                    offset: offset
                )
            }
            let answer = try await connection.call(FileServiceMessages.Send(files: wanted), timeout: Self.patience)
            return (answer.failed ?? []).reduce(into: [:]) { all, failed in
                let (number, isBefore) = failed.entry.subtractingReportingOverflow(first)
                if !isBefore { all[Int(number)] = failed.problem }
            }
        }
    }
}
