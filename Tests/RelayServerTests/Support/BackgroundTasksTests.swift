// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayServer
import Synchronization
import Testing

@Suite struct BackgroundTasksTests {
    @Test func endCancelsAndAwaitsAllAndStartsNothingMore() async {
        let tasks = BackgroundTasks()
        let ended = Mutex(0)
        let (began, begin) = AsyncStream.makeStream(of: Void.self)
        for _ in 0..<10 {
            tasks.start {
                begin.yield()
                // Ends by its cancellation.
                try? await Task.sleep(for: .seconds(3_600))
                ended.withLock { $0 += 1 }
            }
        }
        var count = 0
        for await _ in began {
            count += 1
            if count == 10 { break }
        }
        await tasks.end()
        #expect(ended.withLock { $0 } == 10 && tasks.count == 0)
        #expect(tasks.start { ended.withLock { $0 += 1 } } == nil)
        #expect(ended.withLock { $0 } == 10)
    }
}
