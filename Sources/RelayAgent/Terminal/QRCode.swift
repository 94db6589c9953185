// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Subprocess

/// A link as a QR code for a terminal, by the program `qrencode`. The link has a secret: it goes through a pipe, and is no argument.
struct QRCode: Sendable {
    private static let maximumBytes = 1 << 16
    private static let patience = Duration.seconds(5)
    /// What the lines consist of: each character shows two squares, one above the other.
    private static let blocks: Set<Unicode.Scalar> = [" ", "\u{2580}", "\u{2584}", "\u{2588}"]

    let environment: ProgramEnvironment

    init(environment: ProgramEnvironment = ProgramEnvironment()) { self.environment = environment }

    private let program = Program(arguments: ["qrencode", "-t", "UTF8", "-o", "-"])

    var isThere: Bool { program.isThere }

    /// - Returns: `nil` if the program is not there, or fails.
    func lines(of text: String) async -> [String]? {
        guard isThere else { return nil }
        let configuration = program.configuration(environment.variables(forDesktop: false))
        let output = try? await within(Self.patience) {
            let result = try await Subprocess.run(
                configuration,
                input: .array(Array(text.utf8)),
                output: .bytes(limit: Self.maximumBytes),
                error: .discarded
            )
            return result.terminationStatus.isSuccess ? result.standardOutput : nil
        }
        guard let output, let text = String(validating: output, as: UTF8.self) else { return nil }
        let lines = text.split(separator: "\n").map(String.init)
        guard !lines.isEmpty, lines.allSatisfy({ $0.unicodeScalars.allSatisfy(Self.blocks.contains) }) else { return nil }
        return lines
    }
}

extension Console {
    /// Shows a link as a QR code, too, if the output is a terminal that is wide enough.
    package func showQRCode(of link: String) async throws {
        guard !isJSON, let columns else { return }
        guard QRCode().isThere else { return note("with the program qrencode, the link is shown as a QR code, too") }
        guard let lines = await QRCode().lines(of: link), lines.allSatisfy({ $0.unicodeScalars.count <= columns }) else { return }
        try print(text: lines.joined(separator: "\n"))
    }
}
